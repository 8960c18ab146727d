"""The paper's data sets, tables, protocols and reports."""
