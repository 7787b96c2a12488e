"""A trained model for other programs: loaded in Python, or as a service over HTTP.

    loaded      loads the model of a finished run, without MLflow, Hydra and pandas
    frames      features of a DataFrame, matched by the names of its columns
    requests    reads and checks the JSON of a request to rank documents
    quick       reads usual requests faster, and leaves all others to `requests`
    scanning    compiled loop that reads the features in the bytes of a request
    app         the service: its routes and its answers
    server      runs the service until Ctrl-C

`app` and `server` need the extra `serve`, Starlette and uvicorn; the other files need neither.
"""
