"""Text from a report's JSON: Markdown, JUnit XML, and one self-contained HTML page. No file is read or written here."""
