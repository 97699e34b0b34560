"""Running patterns: from a plan and its arguments to requests, and from replies to rows, pages and sums."""
