"""What somebody who looks at a compilation is shown."""
