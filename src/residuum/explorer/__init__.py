"""The live page of `residuum explore`: what it shows as plain data, and the page in the folder ``page``."""
