"""The widgets that draw the screens; the only folder that imports Textual."""
