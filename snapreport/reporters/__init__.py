"""Answers as documents: a builder for each answer, and a writer for each output."""
