"""What the records say: statistics, tables and pictures. Pure functions of records; never imports torch."""
