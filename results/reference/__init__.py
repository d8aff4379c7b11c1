"""What papers published: their numbers (`published`) and their hyper-parameters (`hyperparameters`)."""
