"""Every way to answer a need from the candidate views, as a graph of goals and options."""
