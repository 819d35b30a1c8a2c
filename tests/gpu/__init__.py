"""What only a card can show."""
