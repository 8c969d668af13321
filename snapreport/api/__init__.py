"""Joins the rooms below into load, convert, render, export, diff, check and record."""
