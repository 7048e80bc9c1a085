"""Where a job is: its open phase, since when, how long that usually takes, and whether it is stuck or dead."""
