"""In which order is a plan carried out, scenario by scenario and step by step?"""
