"""Links between peers behind one interface."""
