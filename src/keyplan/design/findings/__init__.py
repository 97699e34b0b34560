"""What a design should say aloud: contradictions, dangers, patterns without a plan, changes that would pay."""
