"""Tables, pages and plots."""
