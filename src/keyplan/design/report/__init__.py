"""A design for people and programs: the document, the difference of two, explanations, a picture."""
