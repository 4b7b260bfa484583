#!/usr/bin/env -S python3 -B
import json, os, sys, time
from lib.postfix import Postfix
from lib.steered import SteeredSocket, SteeredPipe, Submitter
from lib.testing import main
PORT=2025
oracle=json.load(open("/work/shared/qmgr-oracle.json"))
def body(test):
    pipe = os.environ.get("PIPE")
    lines=["relay_domains =","mynetworks = 127.0.0.0/8","in_flow_delay = 0","smtpd_recipient_limit = 5000","queue_run_delay = 1h",
     "smtpd_delay_reject=no",
     "transport_maps = pcre:{root}/map".format(root=test.directory)]
    services=[f"{PORT} inet n - n - - smtpd\n"]
    agents={}
    for i,row in enumerate(oracle):
        c=row["case"]; n=f"c{i}"
        lines+=[f"{n}_delivery_slot_cost={c['cost']}",f"{n}_minimum_delivery_slots={c['minslots']}",f"{n}_delivery_slot_discount={c['discount']}",f"{n}_delivery_slot_loan={c['loan']}",
           f"{n}_destination_recipient_limit=2",f"{n}_destination_concurrency_limit=50",f"{n}_initial_destination_concurrency=50"]
        if pipe:
            agents[n]=SteeredPipe(test); services.append(agents[n].service(n,1))
    lines=[l for l in lines if not l.startswith("transport_maps")]+["transport_maps = inline:{ "+", ".join(f"{{ d{j}.c{i}.example = c{i}:d{j}.c{i} }}" for i in range(len(oracle)) for j in range(50))+" }"]
    p=Postfix(test,services,main="\n".join(lines)+"\n")
    if not pipe:
        for i in range(len(oracle)): agents[f"c{i}"]=SteeredSocket(test,p,f"c{i}",1)
    p.start(PORT)
    s=Submitter(test,p,PORT)
    for i,row in enumerate(oracle):
        n=f"c{i}"; a=agents[n]
        t0=time.time()
        if pipe: pass
        for m,size in enumerate(row["case"]["sizes"],1):
            s.send([f"{m}.{k}@d{k}.{n}.example" for k in range(size)])
        t1=time.time()
        a.open()
        order=[]
        while len(order)<sum(row["case"]["sizes"]):
            st=a.next()
            if st is None: break
            order.append(st.message)
            st.finish()
        test.equal(order,row["order"],f"case {i} injected {t1-t0:.3f} delivered {time.time()-t1:.3f}")
main(body,seconds=80)
