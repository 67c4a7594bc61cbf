"""Small parts that pages are made of."""
