"""Writers for trainers that leave no file; standard library only."""
