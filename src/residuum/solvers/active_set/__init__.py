"""x"""
from .atoms import PreparedAtoms, prepare_atoms
from .engine import solve_active_set
from .solver import ActiveSet

__all__ = ["ActiveSet", "PreparedAtoms", "prepare_atoms", "solve_active_set"]
