"""The front door of weft: what `import weft` offers."""
