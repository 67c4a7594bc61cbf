"""The local link's server and client, the endpoint file, and the publisher of the state tree."""
