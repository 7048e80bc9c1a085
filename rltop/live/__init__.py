"""Where a job is: the phase that is open, since when, what it usually takes, and whether it is stuck or dead."""
