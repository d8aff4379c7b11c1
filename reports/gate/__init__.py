"""A method judged against another: who may be compared, the verdict, and its forms."""
