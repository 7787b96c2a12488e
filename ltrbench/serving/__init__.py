"""A trained model for other programs: loaded in Python, or as a service over HTTP.

    loaded      loads the model of a finished run, without MLflow, Hydra and pandas
    requests    reads and checks the JSON of a request to rank documents, and rows of a DataFrame
    quick       reads usual requests faster with a compiled loop, and leaves all others to `requests`
    app         the service: its routes and its answers, until Ctrl-C

`app` needs the extra `serve`, Starlette and uvicorn; the other files need neither.
"""
