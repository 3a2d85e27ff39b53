"""The cost engine: wirelength, congestion, density and the placement of standard cells."""
