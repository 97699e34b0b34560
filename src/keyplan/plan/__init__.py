"""The nouns of an answer: views, steps, plans, designs. No engine is named here."""
