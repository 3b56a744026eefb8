"""Open one trained run: its sentences, attention, interventions and attributions."""
