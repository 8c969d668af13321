"""Forecasts of whole programs, and the programs."""
