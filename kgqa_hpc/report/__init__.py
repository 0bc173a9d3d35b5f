"""The report of a merged run: figures and the page RUN/report/index.html."""
