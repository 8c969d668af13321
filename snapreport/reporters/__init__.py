"""Answers as documents, and what writes them: a builder for each answer, a writer for each output."""
