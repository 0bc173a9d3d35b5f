"""The page a person reads after a merge: figures and RUN/report/index.html."""
