"""What C, C++, Rust, Go, Python and build systems call an artifact by."""
