"""Models of sizes in buckets: what they take and give, and what chooses among their programs."""
