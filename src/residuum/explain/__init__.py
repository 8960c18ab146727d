"""Why a query got its label: as data, as text, as a page."""
