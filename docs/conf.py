"""How Sphinx builds the site; `make docs` runs it without network and takes a warning for an error."""

import os
import sys
import tomllib
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # figures must not depend on the machine
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from generated_pages import is_in_gallery  # noqa: E402

import residuum  # noqa: E402

URLS = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["urls"]

project = "residuum"
copyright = "the residuum developers"
release = residuum.__version__
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
    "compiled",
    "generated_pages",
    "pictures",
    "commands",
]
exclude_patterns = ["_build", "_ext", "figures", "data", "Thumbs.db"]
default_role = "py:obj"
smartquotes_action = "q"  # two hyphens are an option, not a dash
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": "|".join(
        rf"{path.stem}\.py$" for path in (HERE.parent / "examples").glob("*.py") if not is_in_gallery(path)
    )
    or r"__init__\.py",
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 0,
    "write_computation_times": False,  # its page loads scripts from elsewhere
    "show_signature": False,
    "remove_config_comments": True,
    "within_subsection_order": "generated_pages.gallery_order",
    "backreferences_dir": None,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "residuum"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_favicon = "_static/residuum.svg"
html_logo = "_static/residuum.svg"
html_sidebars = {"five_minutes": [], "which_classifier": []}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "residuum", "alt_text": "residuum, start page"},
    "github_url": URLS["Repository"],
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "navbar_persistent": ["search-button"],  # the field would need a second line at 1,200 pixels
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
}
