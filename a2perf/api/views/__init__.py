"""Results as tables, figures and cells of a notebook."""
