"""Commands about what the values of a stream look like, and about rules of them."""
