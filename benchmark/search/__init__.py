"""The search for one method's hyper-parameters: what is proposed, what is told, and the rules of a study."""
