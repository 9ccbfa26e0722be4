"""What the product does, without any transport."""
