"""How each trainer names things, one file each."""
