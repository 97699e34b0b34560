"""Running writes: from arguments to changed rows, from these to edits of every view, sent as one."""
