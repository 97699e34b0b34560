"""From the choice to a design: plans, names, figures."""
