"""How parts and means are written for the line: PURE numpy, decoded to the same bits on every machine."""
