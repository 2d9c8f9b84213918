"""Front ends: models of other ecosystems -> the graph level."""
