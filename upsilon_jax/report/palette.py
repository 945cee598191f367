"""Colours that every eye tells apart (Okabe & Ito), the same in all pictures.

Their yellow is left out: it is lost on white paper.
"""

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"
PALETTE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK)
