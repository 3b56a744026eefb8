"""The report of a study, report.html, from the directories of its runs."""
