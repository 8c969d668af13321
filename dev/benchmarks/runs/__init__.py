"""Runs of many ranks, made from a recording: varied as real ranks vary, with known oddities."""
