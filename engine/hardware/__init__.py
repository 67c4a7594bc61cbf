"""What this computer is and how it fares: one probe a file, each of which may answer that it cannot tell."""
