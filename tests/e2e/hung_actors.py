"""A driver whose actors hang, wait, idle and die; for Ray's own interpreter. Prints `ready` once they do."""

import asyncio
import os
import sys
import time

import ray

ray.init(address=sys.argv[1], runtime_env={"env_vars": {"WANDB_API_KEY": "s3cret-of-wandb"}})


@ray.remote(num_cpus=0.1)
class WorkerDict:
    def actor_rollout_update_actor(self):
        time.sleep(600)

    def ping(self):
        return 1


@ray.remote(num_cpus=0.1)
class Async:
    async def generate(self):
        await asyncio.sleep(600)


@ray.remote(num_cpus=0.1)
class Dies:
    def die(self):
        os._exit(3)


workers = [WorkerDict.options(name=f"x{os.getpid()}WorkerDict_0:{rank}").remote() for rank in range(3)]
asynchronous, dying = Async.remote(), Dies.remote()
ray.get([worker.ping.remote() for worker in workers])
calls = [worker.actor_rollout_update_actor.remote() for worker in workers[:2]] + [asynchronous.generate.remote()]
try:
    ray.get(dying.die.remote())
except ray.exceptions.ActorDiedError:
    print("ready", flush=True)
time.sleep(600)
