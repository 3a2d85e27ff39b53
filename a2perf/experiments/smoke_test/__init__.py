"""Smoke tests: does everything still work with everything else, whatever it performs?"""
